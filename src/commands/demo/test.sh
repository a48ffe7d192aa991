# Ends with 0 when add.sh adds.
sum=$(sh add.sh 2 3)
if [ "$sum" = 5 ]; then echo "ok"; else echo "2 + 3 gave $sum"; exit 1; fi
